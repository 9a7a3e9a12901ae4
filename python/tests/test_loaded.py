"""With libcupeer.so: run as `cupeer run --sim -- python3 -m unittest test_loaded`."""

import json
import os
import threading
import time
import unittest

import cupeer
from cupeer import pytest_plugin
from driver import (
    INVALID_DEVICE,
    INVALID_VALUE,
    MAP_FAILED,
    OUT_OF_MEMORY,
    SUCCESS,
    can_access,
    exported,
    opened_wrongly,
)

FAILS = "cuIpcGetMemHandle:error=MAP_FAILED"


class Loaded(unittest.TestCase):
    def test_it_is_there(self):
        self.assertTrue(cupeer.is_loaded())
        self.assertEqual(cupeer.version(), cupeer.__version__)

    def test_a_plan_holds_for_its_block(self):
        self.assertEqual(exported(), SUCCESS)
        with cupeer.inject(FAILS) as plan:
            self.assertTrue(plan.is_armed)
            self.assertEqual((exported(), exported(), can_access()), (MAP_FAILED, MAP_FAILED, SUCCESS))
            self.assertEqual((plan.matched, plan.fired), (2, 2))
        self.assertFalse(plan.is_armed)
        self.assertEqual(exported(), SUCCESS)
        self.assertEqual((plan.matched, plan.fired), (2, 2))

    def test_what_matched_and_what_fired_are_counted_apart(self):
        with cupeer.inject("cuIpcGetMemHandle:when=2:error=OUT_OF_MEMORY") as plan:
            self.assertEqual([exported() for _ in range(3)], [SUCCESS, OUT_OF_MEMORY, SUCCESS])
        self.assertEqual((plan.matched, plan.fired), (3, 1))
        with cupeer.inject(FAILS) as plan:
            pass
        self.assertEqual((plan.matched, plan.fired), (0, 0))

    def test_plans_stand_within_each_other(self):
        with cupeer.inject("cuDeviceCanAccessPeer:error=INVALID_DEVICE") as outer, cupeer.inject(FAILS) as inner:
            self.assertEqual((can_access(), exported()), (INVALID_DEVICE, MAP_FAILED))
        self.assertEqual((outer.fired, inner.fired), (1, 1))
        self.assertEqual((can_access(), exported()), (SUCCESS, SUCCESS))

    def test_a_plan_can_be_armed_again(self):
        plan = cupeer.inject(FAILS)
        for _ in range(2):
            with plan:
                self.assertEqual(exported(), MAP_FAILED)
            self.assertEqual(plan.fired, 1)
        with plan, self.assertRaises(RuntimeError):
            plan.arm()
        self.assertEqual(exported(), SUCCESS)

    def test_what_the_program_raises_is_left_alone_and_the_plan_is_taken_back(self):
        with self.assertRaises(ZeroDivisionError):
            with cupeer.inject(FAILS) as plan:
                exported()
                raise ZeroDivisionError
        self.assertEqual((plan.fired, plan.is_armed, exported()), (1, False, SUCCESS))

    def test_a_wrong_plan_says_where(self):
        for rules, line, column, words in [
            ("cuIpcGetMemHandle:eror=MAP_FAILED", 1, 19, "did you mean 'error'?"),
            ("@peer:delay=1ms\n@ipc:delay=1", 2, 12, "has no unit"),
            ("@ipc:thread=a\0b:hang", 1, 14, "a plan cannot contain NUL"),
            ("", 1, None, "no fault"),
            ("@ipc:thread=\udc80:eror", 1, 15, "did you mean 'error'?"),
        ]:
            with self.assertRaises(cupeer.PlanError) as raised, cupeer.inject(rules):
                self.fail("a wrong plan is armed")
            error = raised.exception
            self.assertEqual((error.line, error.column), (line, column), str(error))
            self.assertIn(words, str(error))
            self.assertIsInstance(error, ValueError)

    def test_what_hangs_is_released(self):
        def hangs(end):
            with cupeer.inject("cuDeviceCanAccessPeer:hang=here") as plan:
                results = []
                thread = threading.Thread(target=lambda: results.append(can_access()))
                thread.start()
                while not plan.fired:
                    time.sleep(0.001)
                end(plan)
                thread.join()
            self.assertEqual(results, [SUCCESS])

        self.assertEqual(cupeer.release("nothing"), 0)
        hangs(lambda plan: cupeer.release("here"))
        hangs(lambda plan: plan.disarm())

    def test_a_forked_child_has_the_plan_and_counts_for_its_parent(self):
        with cupeer.inject("cuDeviceCanAccessPeer:error=INVALID_DEVICE") as plan:
            child = os.fork()
            if child == 0:
                os._exit(0 if can_access() == INVALID_DEVICE else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual((plan.matched, plan.fired), (1, 1))

    def test_all_that_a_fixture_armed_is_taken_back(self):
        fixture = pytest_plugin.plans(self.fail)
        inject = next(fixture)
        first, second = inject(FAILS), inject("cuDeviceCanAccessPeer:error=INVALID_DEVICE")
        with self.assertRaises(cupeer.PlanError):
            inject("@peer:error")
        self.assertEqual((exported(), can_access()), (MAP_FAILED, INVALID_DEVICE))
        self.assertEqual(list(fixture), [])
        self.assertEqual((first.is_armed, second.is_armed), (False, False))
        self.assertEqual((exported(), can_access(), first.fired), (SUCCESS, SUCCESS, 1))

    def test_a_listener_hears_of_findings_where_rules_are_checked(self):
        heard = []
        checked = cupeer.on_finding(heard.append)
        self.assertEqual(checked, os.environ.get("CUPEER_RECORD") != "off")
        self.assertEqual(opened_wrongly(), INVALID_VALUE)
        cupeer.on_finding(None)
        self.assertEqual(opened_wrongly(), INVALID_VALUE)
        self.assertEqual(len(heard), 1 if checked else 0)
        for finding in heard:
            self.assertEqual(
                finding[:6],
                ("ipc-flags", "error", "certain", "cuIpcOpenMemHandle_v2", INVALID_VALUE, "Flags must be 1 (is 0)"),
            )
            self.assertTrue(finding.hint.startswith("Pass CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"), finding.hint)
            self.assertEqual(json.loads(finding.json)["rule"], "ipc-flags")

    def test_a_mark_that_is_written_says_so(self):
        # The record begins with the first call.
        exported()
        recorded = os.environ.get("CUPEER_RECORD") != "off"
        self.assertEqual(cupeer.mark("here"), recorded)
        with cupeer.inject("cuIpcGetMemHandle:mark=go*:error=INVALID_VALUE"):
            self.assertEqual(exported(), SUCCESS)
            cupeer.mark("gone")
            self.assertEqual(exported(), INVALID_VALUE)


if __name__ == "__main__":
    unittest.main()
