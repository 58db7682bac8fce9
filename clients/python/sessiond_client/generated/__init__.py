"""What is generated from the protocol; run: make schema"""
