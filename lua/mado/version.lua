-- The plugin's version; equal to the one in Cargo.toml, which a test holds.
return '0.1.0'
