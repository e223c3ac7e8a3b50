"""What CLI, web, proxy and coordinator share: every change to a hub goes through here."""
