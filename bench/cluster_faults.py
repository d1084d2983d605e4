#!/usr/bin/python3
"""A cluster whose engines are killed, stopped, cut off and frozen, one after the other, for as long as is asked.

    bench/cluster_faults.py --seconds 180 --streams 60 --gateways 2 --engines 3
    sudo bench/cluster_faults.py --namespaces    # each engine on a host of its own, as far as its network goes

Clients speak at their own pace at all times. Exit status 1, and every fault by itself, when one of them gets another
final than it would have had, loses one or gets it twice, is sent away, or hangs.
"""
import argparse
import asyncio
import random
import sys
import time

import live_server

sys.path.insert(0, str(live_server.ROOT / "tests/cluster"))
from cluster_processes import NamespaceHost, RelayedHost  # noqa: E402
from faulty_cluster import FaultyCluster  # noqa: E402


def strikes(host, rng, seconds):
    """All kinds again and again. Some are over before anybody notices."""
    end = time.monotonic() + seconds
    kinds = sorted(host.TROUBLES)
    while True:
        for kind in rng.sample(kinds, len(kinds)):
            if time.monotonic() >= end:
                return
            yield kind, rng.choice((rng.uniform(0, 1), rng.uniform(3, 8)))


async def run(options):
    rng = random.Random(options.seed)
    host = NamespaceHost if options.namespaces else RelayedHost
    with FaultyCluster(gateways=options.gateways, engines=options.engines, streams=options.streams, rng=rng,
                       host=host) as cluster:
        speeches = await cluster.load_speeches(12)
        await cluster.suffer(speeches, strikes(host, rng, options.seconds))
        await asyncio.to_thread(cluster.wait_for_no_streams)
        print(f"{cluster.transcribed} streams, {cluster.moved_streams()} moves after {dict(cluster.strikes)}")
        for when, name, fault in cluster.faults:
            print(f"FAULT at {when} s: {name}: {fault}")
        return not cluster.faults and cluster.transcribed >= options.streams and cluster.moved_streams() > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--gateways", type=int, default=2)
    parser.add_argument("--engines", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--namespaces", action="store_true", help="engines in network namespaces; takes root")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    sys.stdout.reconfigure(line_buffering=True)
    return 0 if asyncio.run(run(options)) else 1


if __name__ == "__main__":
    sys.exit(main())
