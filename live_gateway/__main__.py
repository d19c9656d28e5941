"""`python -m live_gateway` is `live-gateway`."""

from live_gateway.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
