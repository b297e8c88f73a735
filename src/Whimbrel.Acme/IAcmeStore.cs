namespace Whimbrel.Acme;

/// <summary>
/// Place of accounts, certificates with their private keys, and pending challenges. Shared by all nodes that serve the
/// same names: one of them orders, the others take its result. Values are at most 256 KiB. Names are parts of
/// lower-case letters, digits, <c>.</c>, <c>_</c> and <c>-</c>, separated by <c>/</c>. Called on the thread pool,
/// concurrently.
/// </summary>
/// <remarks>
/// Implement it for a database or a secret store. The folder <see cref="FolderAcmeStore"/> is the default. Any
/// exception counts as a failed attempt, and the certificate in use stays.
/// </remarks>
public interface IAcmeStore
{
    /// <summary>Returns a value, or null if there is none.</summary>
    /// <param name="name">Name of the value.</param>
    /// <param name="stop">Cancels the call.</param>
    ValueTask<byte[]?> ReadAsync(string name, CancellationToken stop);

    /// <summary>
    /// Replaces a value as a whole. If it fails, the old value stays, and no reader gets a part of the new one. The
    /// value may be secret: no other user may read it.
    /// </summary>
    /// <param name="name">Name of the value.</param>
    /// <param name="value">New value.</param>
    /// <param name="stop">Cancels the call.</param>
    ValueTask WriteAsync(string name, ReadOnlyMemory<byte> value, CancellationToken stop);

    /// <summary>Removes a value, if there is one.</summary>
    /// <param name="name">Name of the value.</param>
    /// <param name="stop">Cancels the call.</param>
    ValueTask DeleteAsync(string name, CancellationToken stop);

    /// <summary>
    /// Takes a lease, or extends it if this owner has it. Returns false if another owner has it and its time has not
    /// passed. Of several calls at the same time one succeeds.
    /// </summary>
    /// <param name="name">Name of the lease.</param>
    /// <param name="owner">Identity of the caller.</param>
    /// <param name="duration">Time from now on after which another owner may take it.</param>
    /// <param name="stop">Cancels the call.</param>
    ValueTask<bool> TryLeaseAsync(string name, string owner, TimeSpan duration, CancellationToken stop);

    /// <summary>Returns a lease before its time, if this owner has it.</summary>
    /// <param name="name">Name of the lease.</param>
    /// <param name="owner">Identity of the caller.</param>
    /// <param name="stop">Cancels the call.</param>
    ValueTask EndLeaseAsync(string name, string owner, CancellationToken stop);
}
