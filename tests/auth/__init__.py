"""Who is let in: passwords, logins, tokens, codes, and what a proxy remembers of them."""
