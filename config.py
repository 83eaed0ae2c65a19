"""pyinfra reads this first. It parses --data before the inventory and ends in a traceback where there is no `=`."""

from declare.command_line import leave_with_one, refuse_malformed_call, speak_to_machines
from declare.encoding import escape_the_rest

escape_the_rest()
speak_to_machines()
leave_with_one()
refuse_malformed_call()
