"""What a mechanism spends: δ(ε), computed and never assumed."""
