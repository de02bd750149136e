"""What the worker knows of the model server, and how it paces itself by that."""
