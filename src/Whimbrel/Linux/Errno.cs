namespace Whimbrel.Linux;

/// <summary>Linux error numbers that the library handles by name. The same on x64 and arm64.</summary>
internal static class Errno
{
    internal const int EPERM = 1;
    internal const int ENOENT = 2;
    internal const int EINTR = 4;
    internal const int EIO = 5;
    internal const int ENXIO = 6;
    internal const int EBADF = 9;
    internal const int EAGAIN = 11;
    internal const int ENOMEM = 12;
    internal const int EACCES = 13;
    internal const int EFAULT = 14;
    internal const int EBUSY = 16;
    internal const int EEXIST = 17;
    internal const int ENODEV = 19;
    internal const int EINVAL = 22;
    internal const int ENFILE = 23;
    internal const int EMFILE = 24;
    internal const int ENOSPC = 28;
    internal const int EPIPE = 32;
    internal const int ENOSYS = 38;
    internal const int ENODATA = 61;
    internal const int ETIME = 62;
    internal const int EPROTO = 71;
    internal const int ENOTSOCK = 88;
    internal const int EDESTADDRREQ = 89;
    internal const int EMSGSIZE = 90;
    internal const int EPROTOTYPE = 91;
    internal const int ENOPROTOOPT = 92;
    internal const int EPROTONOSUPPORT = 93;
    internal const int ESOCKTNOSUPPORT = 94;
    internal const int EOPNOTSUPP = 95;
    internal const int EPFNOSUPPORT = 96;
    internal const int EAFNOSUPPORT = 97;
    internal const int EADDRINUSE = 98;
    internal const int EADDRNOTAVAIL = 99;
    internal const int ENETDOWN = 100;
    internal const int ENETUNREACH = 101;
    internal const int ENETRESET = 102;
    internal const int ECONNABORTED = 103;
    internal const int ECONNRESET = 104;
    internal const int ENOBUFS = 105;
    internal const int EISCONN = 106;
    internal const int ENOTCONN = 107;
    internal const int ESHUTDOWN = 108;
    internal const int ETIMEDOUT = 110;
    internal const int ECONNREFUSED = 111;
    internal const int EHOSTDOWN = 112;
    internal const int EHOSTUNREACH = 113;
    internal const int EALREADY = 114;
    internal const int EINPROGRESS = 115;
    internal const int ECANCELED = 125;
}
