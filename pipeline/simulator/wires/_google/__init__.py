"""What Gemini's and Vertex' wires share: Google's way of refusing, and the contents both generate."""
