using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Security.Cryptography;

namespace Whimbrel.Tls;

/// <summary>
/// Callbacks for OpenSSL: the BIO method, and the callbacks of a context. An exception that leaves one of them would
/// end the process. So they copy bytes and set flags in the <see cref="OpenSslWindow"/>, which the layer reads after
/// the call; the verify callback calls a member of the layer that never throws. Any thread that runs a layer.
/// </summary>
// Safe: the window outlives its SSL (the layer frees it after SSL_free), and its pointers are valid while libssl runs,
// because only the layer calls libssl, with input pinned and output owned for the call. Every copy is bounded by both
// lengths.
internal static unsafe class OpenSslCallbacks
{
    private const int ControlEndOfFile = 2;
    private const int ControlFlush = 11;

    private const int AlpnAccepted = 0;
    private const int AlpnRefused = 2;
    private const int AlpnIgnored = 3;

    private const int InfoLoop = 1;
    private const int InfoAlert = 0x4000;

    private static readonly nint s_method = NewMethod();

    private static readonly int s_sslIndex = OpenSslApi.StoreIndexOfSsl();

    /// <summary>The layer that performs a handshake on this thread: callbacks run inside that call only.</summary>
    [ThreadStatic]
    internal static OpenSslLayer? Running;

    /// <summary>
    /// Sets the two BIOs of an SSL, both with one window. Two, because each can then keep the flag "try again"
    /// permanently, and the callbacks need not set it. Returns false without memory.
    /// </summary>
    internal static bool Connect(nint ssl, OpenSslWindow* window)
    {
        nint read = NewBio(window, OpenSslApi.BioRead);
        nint write = NewBio(window, OpenSslApi.BioWrite);
        if (read == 0 || write == 0)
        {
            if (read != 0) _ = OpenSslApi.BioFree(read);
            if (write != 0) _ = OpenSslApi.BioFree(write);
            return false;
        }

        OpenSslApi.SetBio(ssl, read, write);
        return true;
    }

    /// <summary>Sets the callbacks that every context has.</summary>
    internal static void Install(nint context)
    {
        OpenSslApi.ContextSetInfoCallback(context, &Info);
        OpenSslApi.ContextSetVerifyCallback(context, &Verify, 0);
    }

    /// <summary>
    /// Sets the server's ALPN selection. <paramref name="list"/> is never freed (<see cref="OpenSslProtocolList"/>).
    /// </summary>
    internal static void InstallAlpn(nint context, nint list) =>
        OpenSslApi.ContextSetAlpnCallback(context, &SelectProtocol, list);

    private static nint NewMethod()
    {
        nint method;
        fixed (byte* name = "whimbrel window\0"u8)
        {
            // OpenSSL copies the name (OPENSSL_strdup).
            method = OpenSslApi.BioMethodNew(OpenSslApi.BioNewIndex() | OpenSslApi.BioSourceSink, name);
        }

        if (method == 0) throw new CryptographicException("OpenSSL could not make a BIO method.");
        _ = OpenSslApi.BioMethodSetRead(method, &ReadWindow);
        _ = OpenSslApi.BioMethodSetWrite(method, &WriteWindow);
        _ = OpenSslApi.BioMethodSetControl(method, &ControlWindow);
        return method;
    }

    private static nint NewBio(OpenSslWindow* window, int direction)
    {
        nint bio = OpenSslApi.BioNew(s_method);
        if (bio == 0) return 0;
        OpenSslApi.BioSetData(bio, window);
        OpenSslApi.BioSetFlags(bio, direction | OpenSslApi.BioRetry);
        OpenSslApi.BioSetInit(bio, 1);
        return bio;
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static int ReadWindow(nint bio, byte* into, int length)
    {
        OpenSslWindow* window = (OpenSslWindow*)OpenSslApi.BioGetData(bio);
        int count = Math.Min(length, window->InputLength);
        if (count <= 0) return -1;
        Unsafe.CopyBlockUnaligned(into, window->Input, (uint)count);
        window->Input += count;
        window->InputLength -= count;
        return count;
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static int WriteWindow(nint bio, byte* from, int length)
    {
        OpenSslWindow* window = (OpenSslWindow*)OpenSslApi.BioGetData(bio);
        int count = Math.Min(length, window->OutputRoom);
        if (count <= 0) return -1;
        Unsafe.CopyBlockUnaligned(window->Output, from, (uint)count);
        window->Output += count;
        window->OutputRoom -= count;
        return count;
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static nint ControlWindow(nint bio, int command, nint number, void* pointer) => command switch
    {
        ControlFlush => 1,
        // The end of the peer's data is passed to the layer (EndOfInput), never to OpenSSL, which would report it as an
        // error.
        ControlEndOfFile => 0,
        _ => 0,
    };

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static int SelectProtocol(nint ssl, byte** chosen, byte* chosenLength, byte* offered, uint offeredLength,
        nint argument)
    {
        // Both are lists of (length, bytes). OpenSSL has validated the client's list; the own list follows its length.
        byte* ours = (byte*)argument + sizeof(int);
        byte* oursEnd = ours + *(int*)argument;
        for (; ours < oursEnd; ours += 1 + *ours)
        {
            byte* end = offered + offeredLength;
            for (byte* theirs = offered; theirs < end && theirs + 1 + *theirs <= end; theirs += 1 + *theirs)
            {
                if (*theirs != *ours || !new ReadOnlySpan<byte>(theirs + 1, *theirs).SequenceEqual(
                    new ReadOnlySpan<byte>(ours + 1, *ours)))
                    continue;
                *chosen = theirs + 1;
                *chosenLength = *theirs;
                return AlpnAccepted;
            }
        }

        return *(int*)argument == 0 ? AlpnIgnored : AlpnRefused;
    }

    // A client's decision may take long and be made elsewhere: the first call returns "retry later" (and 1, because
    // OpenSSL checks the flag only then). A server cannot pause here, so it decides at once.
    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static int Verify(nint store, nint argument)
    {
        OpenSslLayer? layer = Running;
        if (layer is null) return 0;
        OpenSslVerdict verdict = layer.GiveVerdict(store, out int error);
        if (verdict == OpenSslVerdict.Open)
        {
            _ = OpenSslApi.Control(OpenSslApi.StoreData(store, s_sslIndex), OpenSslApi.CtrlRetryVerify, 0, null);
            return 1;
        }

        // The error selects the alert that the peer receives.
        OpenSslApi.StoreSetError(store, error);
        return verdict == OpenSslVerdict.Accepted ? 1 : 0;
    }

    // Each message after the handshake passes three to five states: key updates, tickets, renegotiation requests. They
    // cost this side 10 to 50 microseconds and the peer almost nothing.
    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void Info(nint ssl, int where, int value)
    {
        if ((where & (InfoLoop | InfoAlert)) == 0) return;
        OpenSslWindow* window = WindowOf(ssl);
        if (!window->IsHandshakeDone) return;
        window->PostSteps++;
        if (--window->Credit >= 0) return;
        window->IsFlooded = true;
        window->InputLength = 0;
    }

    private static OpenSslWindow* WindowOf(nint ssl) =>
        (OpenSslWindow*)OpenSslApi.BioGetData(OpenSslApi.GetReadBio(ssl));
}
