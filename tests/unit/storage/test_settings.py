from batchwright.api.batchjob import Storage
from batchwright.storage.settings import StorageSettings


def test_nothing_set_is_amazon_s3() -> None:
    assert StorageSettings.from_spec(None) == StorageSettings()


def test_the_resources_fields_are_taken_over() -> None:
    spec = Storage.model_validate(
        {
            "endpointURL": "http://minio:9000",
            "region": "eu-central-1",
            "addressingStyle": "virtual",
            "signatureVersion": "s3",
            "serverSideEncryption": {"kmsKeyID": "key-1"},
        }
    )
    assert StorageSettings.from_spec(spec) == StorageSettings(
        endpoint_url="http://minio:9000",
        region="eu-central-1",
        addressing_style="virtual",
        signature_version="s3",
        kms_key_id="key-1",
    )


def test_an_endpoint_of_ones_own_gets_the_bucket_in_its_path() -> None:
    spec = Storage.model_validate({"endpointURL": "http://minio:9000"})
    assert StorageSettings.from_spec(spec).addressing_style == "path"


def test_amazon_chooses_the_style_by_itself() -> None:
    assert StorageSettings.from_spec(Storage()).addressing_style == "auto"
