"""Object stores behind one small protocol: `s3://` (boto3) and `file://` (a mounted volume).

Start with `location.parse_location`, then `factory.open_store`. What a store can do is in `protocol`, what it
can raise in `errors`.
"""
