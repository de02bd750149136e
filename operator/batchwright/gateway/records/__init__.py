"""What the gateway keeps in object storage, under `<batchPath>/.gateway/`, where no tenant's credentials reach."""
