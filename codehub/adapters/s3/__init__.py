"""The `s3://` object store: archives in a bucket of anything that speaks S3, through boto3.

Nothing is imported here: addresses are read and made without boto3, which is heavy.
"""
