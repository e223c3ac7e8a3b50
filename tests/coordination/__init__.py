"""Tests of the coordinator as a whole: real Postgres, real store and job code, fast containers."""
