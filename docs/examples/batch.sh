#!/usr/bin/env bash
# Run a file of requests as a batch, with curl alone: upload it, create the batch, wait for its end, download the results.
#
#   export GATEWAY=https://batch.example.com API_KEY=bw-…
#   docs/examples/batch.sh requests.jsonl results.jsonl [/v1/chat/completions]
set -euo pipefail

input=$1 results=$2 endpoint=${3:-/v1/chat/completions}

# A request to the gateway. Where it is refused, the answer says why.
api() {
  local answer
  answer=$(curl --silent --show-error --fail-with-body --header "Authorization: Bearer $API_KEY" "$@") ||
    { echo "$answer" >&2; exit 1; }
  printf '%s' "$answer"
}

# A field of an answer; empty where it is null.
field() { grep -o "\"$1\": *\"[^\"]*\"" <<<"$2" | cut -d '"' -f 4 || true; }

file=$(api "$GATEWAY/v1/files" --form purpose=batch --form "file=@$input")
batch=$(api "$GATEWAY/v1/batches" --header "Content-Type: application/json" \
  --data "{\"input_file_id\": \"$(field id "$file")\", \"endpoint\": \"$endpoint\"}")
id=$(field id "$batch")
status=$(field status "$batch")
echo "$id $status"

until [[ $status =~ ^(completed|failed|expired|cancelled)$ ]]; do
  sleep "${INTERVAL:-10}"
  batch=$(api "$GATEWAY/v1/batches/$id")
  status=$(field status "$batch")
  echo "$id $status"
done

output=$(field output_file_id "$batch")
errors=$(field error_file_id "$batch")
if [[ -n $output ]]; then api "$GATEWAY/v1/files/$output/content" --output "$results"; fi
if [[ -n $errors ]]; then api "$GATEWAY/v1/files/$errors/content" --output "$results.errors"; fi
if [[ $status != completed ]]; then echo "$batch" >&2; exit 1; fi
