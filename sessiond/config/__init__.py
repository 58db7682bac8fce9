"""The configuration of a daemon and of the commands.

configuration.py  flags over environment over file over defaults
config_file.py    the path of the configuration file
presets.py        the values of several keys under one name
"""
