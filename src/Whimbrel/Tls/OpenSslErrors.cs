using System.Runtime.InteropServices;

namespace Whimbrel.Tls;

/// <summary>
/// Converts the error queue of OpenSSL on this thread to a cause and a sentence. Call it right after the failed call,
/// on its thread.
/// </summary>
// Safe: OpenSSL's reason strings are constants of the library, and the other form is written into a local buffer with
// its length.
internal static unsafe class OpenSslErrors
{
    private const int SslLibrary = 20;

    // SSL_R constants of sslerr.h. RECORD_TOO_SMALL is the result of a series of empty records.
    private const int EncryptedLengthTooLong = 150;
    private const int NoCertificateSet = 179;
    private const int NotOnRecordBoundary = 182;
    private const int TooManyKeyUpdates = 132;
    private const int PacketLengthTooLong = 198;
    private const int CallbackFailed = 234;
    private const int WrongVersionNumber = 267;
    private const int BadLegacyVersion = 292;
    private const int UnexpectedEnd = 294;
    private const int RecordTooSmall = 298;
    private const int TooManyWarnAlerts = 409;
    private const int BadRecordType = 443;

    /// <summary>Clears the queue. Returns the text of the first error, or that there is none.</summary>
    internal static string Take()
    {
        nuint first = TakeFirst();
        return first == 0 ? "OpenSSL gives no reason" : TextOf(first);
    }

    /// <summary>Clears the queue. Returns the first error (the one closest to the cause), or 0.</summary>
    internal static nuint TakeFirst()
    {
        nuint first = OpenSslApi.TakeError();
        if (first != 0) OpenSslApi.ClearErrors();
        return first;
    }

    /// <summary>Returns the reason number if libssl itself reported it, otherwise 0.</summary>
    internal static int ReasonOf(nuint error) =>
        (int)((error >> 23) & 0xff) == SslLibrary ? (int)(error & 0x7fffff) : 0;

    internal static string TextOf(nuint error)
    {
        // Safe: OpenSSL's reason strings are constants of the library; the other form is written into a local buffer.
        byte* reason = OpenSslApi.ErrorReason(error);
        if (reason is not null) return Marshal.PtrToStringUTF8((nint)reason)!;
        byte* room = stackalloc byte[256];
        OpenSslApi.ErrorText(error, room, 256);
        return Marshal.PtrToStringUTF8((nint)room)!;
    }

    /// <summary>
    /// Returns the cause of a failed handshake or connection, in the same terms as the portable layer.
    /// </summary>
    /// <param name="error">First error of the queue.</param>
    /// <param name="profile">Profile of the connection.</param>
    /// <param name="isFirst">True if no data of the peer was parsed successfully yet.</param>
    internal static TlsFault Fault(nuint error, TlsProfile profile, bool isFirst)
    {
        string peer = profile.IsServer ? "client" : "server";
        switch (ReasonOf(error))
        {
            case BadRecordType or EncryptedLengthTooLong or PacketLengthTooLong or NotOnRecordBoundary
                or BadLegacyVersion when isFirst:
                return new TlsFault(TlsFailure.NotTls, $"what the {peer} sent is not TLS ({TextOf(error)})");
            case WrongVersionNumber when !isFirst:
                return new TlsFault(TlsFailure.BadRecord, $"the {peer} broke the protocol ({TextOf(error)})");
            case RecordTooSmall or TooManyKeyUpdates or TooManyWarnAlerts:
                return new TlsFault(TlsFailure.Flood,
                    $"the peer sent too many records without content ({TextOf(error)})");
            case UnexpectedEnd:
                return new TlsFault(TlsFailure.PeerLeft,
                    "the peer ended the connection in the middle of the handshake");
            case NoCertificateSet or CallbackFailed:
                return new TlsFault(TlsFailure.LocalFault, $"the handshake failed on this side ({TextOf(error)})");
            default:
                TlsFault fault = error == 0
                    ? new TlsFault(TlsFailure.BadRecord, $"the {peer} broke the protocol")
                    : TlsErrorText.Classify(TextOf(error), profile);
                return isFirst && !profile.IsServer && fault.Cause == TlsFailure.BadRecord
                    ? fault with { Message = $"{fault.Message}; perhaps it speaks no TLS at this port" }
                    : fault;
        }
    }
}
