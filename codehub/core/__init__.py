"""The verbs: pure functions that decide. Time is an argument; nothing here touches the world."""
