"""Plans, misconceptions, exam questions and slides, made from the course itself."""
