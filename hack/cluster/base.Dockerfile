# Debian 12 with Python 3.11, from a tar file that mmdebstrap made.
FROM scratch
ADD base.tar /
ENV LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["/bin/bash"]
