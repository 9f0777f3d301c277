"""Run many training runs with several worker processes on one device."""
