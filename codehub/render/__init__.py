"""Values into what people and scripts read: text, JSON, Markdown, HTML."""
