"""Long-term memory: what was said in earlier sessions, to be searched. Nothing is put there behind the user's back."""
