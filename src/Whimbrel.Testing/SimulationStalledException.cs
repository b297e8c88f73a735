namespace Whimbrel.Testing;

/// <summary>
/// Thrown when a simulation cannot continue: nothing is left to run and no timer is armed. The message has the seed and
/// the last steps.
/// </summary>
public sealed class SimulationStalledException : Exception
{
    /// <summary>Creates the exception.</summary>
    /// <param name="message">Seed and last steps.</param>
    public SimulationStalledException(string message)
        : base(message)
    {
    }
}
