"""Shows what was found in a record, and fails where a program that is right is blamed: for each finding above note.

usage: check_findings.py CUPEER DIR [RULE]     where processes were killed: RULE is so, and the certain ones count alone
"""
import sys

import checked

cupeer, directory, *killed = sys.argv[1:]
findings, trouble = checked.report(cupeer, directory)
wrong = bool(trouble)
for text in trouble:
    print("  WRONG:", text)
for finding in findings:
    is_blame = finding["severity"] != "note"
    if killed and (finding["rule"] in killed or finding["confidence"] != "certain"):
        is_blame = False
    wrong = wrong or is_blame
    print("  WRONG:" if is_blame else " ", checked.line(finding))
print(f"  {len(findings)} findings")
sys.exit(wrong)
