#!/bin/bash
# One audit (or screen) as one job: task 0 is the scheduler, task 1 the driver, all others work.
#
#   sbatch [options] allocation.sh audit CONFIG [further options of clusterscale]
#
# An audit longer than the walltime is stopped before it and keeps finished work, and the job is
# requeued. It is also requeued if it was lost. It exits when the audit does: with 0 if all is done,
# 1 if tasks failed, 2 if it cannot run, 3 or 4 with a verdict; with others (75: the cluster or a
# store failed; 137: killed) if it was lost too often.
#
# Adapt these to the site, or give them to sbatch; they are kept from one run to the next.
#SBATCH --job-name=clusterscale
#SBATCH --ntasks=10
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
# Keep these: a signal before the walltime, requeueing under the same number, one log for all runs,
# and never two jobs of one name at the same time.
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --dependency=singleton
set -u
export CLUSTERSCALE=${CLUSTERSCALE:-clusterscale} # path of the command, if not on PATH
RUNS=${RUNS:-100}                                 # maximum number of runs
LOSSES=${LOSSES:-3}                               # maximum number of losses other than by walltime
GRACE=${GRACE:-60}                                # seconds that tasks may take to end
export DASK_LOGGING__DISTRIBUTED=${DASK_LOGGING__DISTRIBUTED:-warning}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

export VERDICT=$PWD/.$SLURM_JOB_NAME-$SLURM_JOB_ID.exit # exit code of the driver, wherever it runs
lost=$PWD/.$SLURM_JOB_NAME-$SLURM_JOB_ID.lost # a line for each lost run
rm -f "$VERDICT"
late=no
trap 'late=yes; scancel --signal=TERM "$SLURM_JOB_ID.0"' USR1

# shellcheck disable=SC2016  # the tasks expand it
srun --kill-on-bad-exit=0 bash -c '
  trap : TERM # to outlive the driver and record its exit code
  "$CLUSTERSCALE" "$@" --cluster slurm-allocation
  code=$?
  if [ "$SLURM_PROCID" = 1 ]; then echo "$code" > "$VERDICT.new"; mv "$VERDICT.new" "$VERDICT"; fi
  exit "$code"' task "$@" &
step=$!

running() { kill -0 "$step" 2>/dev/null; }
pause() { sleep 1 & wait $!; } # a signal interrupts it
ended() { ! running || [ -e "$VERDICT" ]; }
until ended || [ $late = yes ]; do pause; done
for _ in $(seq "$GRACE"); do ended && break; pause; done
for signal in INT KILL; do # for tasks that do not end with the driver
  for _ in $(seq 5); do running && pause; done
  running && scancel --signal=$signal "$SLURM_JOB_ID.0" 2>/dev/null
done
wait "$step"

code=$(cat "$VERDICT" 2>/dev/null || echo 137)
rm -f "$VERDICT"
run=$((${SLURM_RESTART_COUNT:-0} + 1))
give_up() {
  [ $# = 1 ] || echo "run $run ended with $1 before the audit was done, and $2"
  rm -f "$lost"
  exit "$1"
}

case $code in
  0 | 1 | 2 | 3 | 4) give_up "$code" ;;
  143) [ $late = yes ] || give_up 143 ;; # it was stopped by a user
  *) echo "$run" >> "$lost" ;;
esac
n_lost=0
[ ! -e "$lost" ] || n_lost=$(wc -l < "$lost")
[ "$n_lost" -lt "$LOSSES" ] || give_up "$code" "it was lost $LOSSES times"
[ "$run" -lt "$RUNS" ] || give_up "$code" "it was the last run"
echo "run $run ended with $code before the audit was done: the job queues again"
scontrol requeue "$SLURM_JOB_ID" && sleep "$GRACE"
exit "$code"
