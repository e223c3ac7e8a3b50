"""PostgreSQL: the tables, the migrations, and every query by name."""
