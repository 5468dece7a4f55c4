"""What protects one client: mechanisms, noise, and the exact price of what is revealed."""
