"""The nouns: frozen values that every layer speaks in. Nothing here touches the world."""
