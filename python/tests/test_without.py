"""Without libcupeer.so nothing does any harm."""

import unittest

import cupeer
from cupeer import pytest_plugin


class Without(unittest.TestCase):
    def test_nothing_is_there(self):
        self.assertEqual((cupeer.is_loaded(), cupeer.version()), (False, None))
        self.assertIs(cupeer.mark("here"), False)
        self.assertEqual(cupeer.release("here"), 0)
        self.assertIs(cupeer.on_finding(self.fail), False)

    def test_plans_cannot_be_armed(self):
        with self.assertRaises(cupeer.NotLoaded) as raised, cupeer.inject("@ipc:hang"):
            self.fail("a plan is armed without the library")
        self.assertIn("cupeer run -- python3", str(raised.exception))
        plan = cupeer.inject("@ipc:hang")
        plan.disarm()
        self.assertEqual((plan.is_armed, plan.matched, plan.fired), (False, 0, 0))

    def test_a_fixture_skips(self):
        class Skipped(Exception):
            pass

        def skip(reason):
            raise Skipped(reason)

        with self.assertRaises(Skipped) as raised:
            next(pytest_plugin.plans(skip))
        self.assertIn("cupeer run -- python3 -m pytest", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
