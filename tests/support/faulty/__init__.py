"""Faulty subjects, by the module of the checks that notice them."""
