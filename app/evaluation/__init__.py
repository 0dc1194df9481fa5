"""Measuring retrieval and answers on documents and questions, whatever server holds them."""
