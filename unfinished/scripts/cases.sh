#!/bin/bash
# cases.sh ROOT: run all cases
. /tmp/k/env.sh; cd ${1:-/tmp/k/w}
for f in /work/shared/cases/*.py ${2}; do
  n=$(basename $f .py); PYTHONPATH=. timeout 100 python $f > /tmp/k/cases/$n.log 2>&1; echo "$? $n"
done
