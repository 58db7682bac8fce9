"""Daemon from inside: its process, its environment and configuration, its end.

process.py             the process, from its start to its exit status
startup.py             descriptors, limits, the profile's lock
daemon.py              service and transports, while they run
stores.py              the configured store
moving.py              a whole profile from its files into the database, and back
environment.py         the real clock, ids and log
row_maker.py           the program of the processes that read new files ahead of a scan
reload.py              the configuration in force
idle.py                the end of an unused daemon
retention_timer.py     retention every hour, and the erasure of words
secret_keys.py         the configured source of the key of the secrets
output_of.py           what a command writes that says a secret
summarizer_command.py  the configured command that writes summaries
process_log.py         log lines on standard error
exit_status.py         the exit status
"""
