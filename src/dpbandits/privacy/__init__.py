"""What protects one client: mechanisms, the noise they draw, and the exact price of what they reveal."""
