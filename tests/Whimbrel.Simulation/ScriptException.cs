namespace Whimbrel.Simulation;

// Thrown by a scripted session deliberately.
public sealed class ScriptException(string message) : Exception(message);
