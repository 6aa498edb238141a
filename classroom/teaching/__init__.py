"""Plans, misconceptions, exam questions and slides, from what the course itself holds."""
