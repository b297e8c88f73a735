namespace Whimbrel;

/// <summary>
/// Answer to a call, on loan: dispose it once, for all its copies, after reading, so that the next call allocates
/// nothing. An answer that is never disposed is left to the garbage collector. Any thread.
/// </summary>
public readonly struct CallAnswer : IDisposable, IEquatable<CallAnswer>
{
    private readonly Call? _call;
    private readonly int _loan;

    internal CallAnswer(Call call, int loan)
    {
        _call = call;
        _loan = loan;
    }

    /// <summary>Body of the answer. Valid until it is disposed.</summary>
    /// <exception cref="ObjectDisposedException">The answer was disposed.</exception>
    public ReadOnlyMemory<byte> Memory => _call is { } call ? call.AnswerOf(_loan) : default;

    /// <summary>Body of the answer. Valid until it is disposed.</summary>
    /// <exception cref="ObjectDisposedException">The answer was disposed.</exception>
    public ReadOnlySpan<byte> Span => Memory.Span;

    /// <summary>Returns the memory. A second call has no effect.</summary>
    public void Dispose() => _call?.EndLoan(_loan);

    /// <inheritdoc/>
    public bool Equals(CallAnswer other) => ReferenceEquals(_call, other._call) && _loan == other._loan;

    /// <inheritdoc/>
    public override bool Equals(object? obj) => obj is CallAnswer other && Equals(other);

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(_call, _loan);

    /// <summary>Compares for the same answer.</summary>
    /// <param name="left">First answer.</param>
    /// <param name="right">Second answer.</param>
    public static bool operator ==(CallAnswer left, CallAnswer right) => left.Equals(right);

    /// <summary>Compares for different answers.</summary>
    /// <param name="left">First answer.</param>
    /// <param name="right">Second answer.</param>
    public static bool operator !=(CallAnswer left, CallAnswer right) => !left.Equals(right);
}
