"""A test bed for tools that count regions: small networks, sets, and answers certified in rational arithmetic."""
