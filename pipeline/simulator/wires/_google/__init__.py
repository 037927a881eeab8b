"""What Gemini's and Vertex's wires share: Google's way of refusing, and the contents both generate."""
