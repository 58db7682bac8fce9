"""The configuration of a daemon and of the commands.

configuration.py  flags over environment over file over defaults
config_file.py    the path of the configuration file
addresses.py      whether the address of a database holds a secret
presets.py        the values of several keys under one name
"""
