"""The floor: one SSH connection and one channel a host, all hosts at once, the whole job in one script.

Runs in bench/.venv: `python bench/floor.py SCRIPTS.json`, which holds {key, known_hosts, hosts: {NAME: {address,
script}}}. Exit 1 where a host fails.
"""

import asyncio
import json
import sys

import asyncssh


async def one(name: str, address: str, script: str, access: dict) -> tuple[str, int, str]:
    """Name, exit code and output of one host."""
    options = {"username": "root", "client_keys": [access["key"]], "known_hosts": access["known_hosts"]}
    async with asyncssh.connect(address, config=None, agent_path=None, **options) as connection:
        done = await connection.run(script, stderr=asyncssh.STDOUT)
        return name, done.exit_status or 0, str(done.stdout)


async def main(path: str) -> int:
    """Every host at once; the number of hosts that failed."""
    with open(path) as file:
        access = json.load(file)
    jobs = [one(name, host["address"], host["script"], access) for name, host in access["hosts"].items()]
    failed = changed = 0
    for name, code, output in await asyncio.gather(*jobs):
        last = output[output.index("== change") :] if "== change" in output else output
        print(f"[{name}] {last.strip()}")
        failed += code != 0
        changed += "changed=1" in last
    print(f"hosts={len(jobs)} changed={changed} failed={failed}")
    return failed


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(main(sys.argv[1])) else 0)
