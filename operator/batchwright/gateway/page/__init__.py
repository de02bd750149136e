"""The page for people: batches in a browser, rendered here, from the same records as the API.

words, throughput, batch_view   what is shown (pure)
run_records                     what the plot is made of, from the store
session, origin                 who asks, and that it is their own page that does
assets, templating, page_route  how it is sent
routes                          the pages; actions changes something
"""
