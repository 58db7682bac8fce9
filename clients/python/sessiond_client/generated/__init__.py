"""Modules that are generated from the protocol; run: make schema"""
