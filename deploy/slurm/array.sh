#!/bin/bash
# One audit (or screen) as a job array, for sites that prefer many small jobs to a large one: element 0
# is the scheduler, element 1 the driver, all others work. They start as the queue lets them, but
# element 0 must start within five minutes of any other.
#
#   sbatch [options] array.sh audit CONFIG [further options of clusterscale]
#
# The exit code of element 1 is that of the audit. Before its walltime it stops and keeps finished work
# (143); submit the array again to go on. If a worker is lost, its tasks run elsewhere, and it does not
# come back. When the audit has ended, elements that still wait in the queue are cancelled.
#
# Adapt these to the site, or give them to sbatch.
#SBATCH --job-name=clusterscale
#SBATCH --array=0-9
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=04:00:00
#SBATCH --output=%x-%A-%a.log
# Keep these: a signal before the walltime, and no element that starts twice.
#SBATCH --signal=B:TERM@300
#SBATCH --no-requeue
set -u
CLUSTERSCALE=${CLUSTERSCALE:-clusterscale} # path of the command, if not on PATH
export DASK_LOGGING__DISTRIBUTED=${DASK_LOGGING__DISTRIBUTED:-warning}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

[ -n "${SLURM_ARRAY_TASK_ID:-}" ] || { echo "give this file to sbatch" >&2; exit 2; }
if [ "$SLURM_ARRAY_TASK_MIN" != 0 ] || [ "$SLURM_ARRAY_TASK_COUNT" != $((SLURM_ARRAY_TASK_MAX + 1)) ]
then
  echo "--array must be 0-N, without gaps" >&2
  exit 2
fi

# To the command, the array is one job, and its elements are the tasks of it.
element=$SLURM_ARRAY_TASK_ID
export SLURM_JOB_ID=$SLURM_ARRAY_JOB_ID SLURM_STEP_ID=array SLURM_RESTART_COUNT=0
export SLURM_PROCID=$element SLURM_NTASKS=$SLURM_ARRAY_TASK_COUNT
[ "$element" = 1 ] || exec "$CLUSTERSCALE" "$@" --cluster slurm-allocation
"$CLUSTERSCALE" "$@" --cluster slurm-allocation &
driver=$!
trap 'kill -TERM "$driver"' TERM
wait "$driver"
code=$?
while kill -0 "$driver" 2>/dev/null; do # the signal ended the wait, not the driver
  wait "$driver"
  code=$?
done
scancel --state=PENDING "$SLURM_ARRAY_JOB_ID"
sleep 10 # for the others to end
for other in $(seq 2 "$SLURM_ARRAY_TASK_MAX"); do # those that began in the meantime have no scheduler
  scancel "${SLURM_ARRAY_JOB_ID}_$other" 2>/dev/null
done
exit "$code"
