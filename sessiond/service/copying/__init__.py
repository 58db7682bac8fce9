"""Copies: sessions made of another session; what they take, its layout, and their header."""
