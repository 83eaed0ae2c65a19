"""pyinfra reads this first. It parses --data before the inventory and ends in a traceback where there is no `=`."""

from declare.command_line import refuse_malformed_data

refuse_malformed_data()
