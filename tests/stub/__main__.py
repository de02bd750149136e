import sys

from stub.main import main

sys.exit(main())
