"""`python -m codehub` is the `codehub` command."""

from codehub.cli.main import main

if __name__ == "__main__":
    main()
